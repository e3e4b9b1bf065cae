"""The array API standard's own tests, run on `oxinp.array_api`: `python -m tests.array_api_suite CHECKOUT`."""
