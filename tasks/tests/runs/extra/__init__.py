"""An app with internal kinds that do what no kind should, loaded in the tests and in their children alone."""
