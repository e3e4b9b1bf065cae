"""Where elements are: dtypes, layouts inside a storage, storages."""
