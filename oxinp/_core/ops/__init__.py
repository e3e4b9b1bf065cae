"""Every operation on arrays that is no ufunc, one module per kind. Namespace functions and methods are thin fronts."""
