"""The benches' own machinery; the benches themselves are run by `bin/bench`."""
