"""An app with internal kinds that do what no kind should, loaded in the children of the tests and in the tests alone."""
