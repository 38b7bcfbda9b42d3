"""The console's own pages in the admin's frame."""
