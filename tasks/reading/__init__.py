"""What pages, API and commands read about tasks. Nothing here changes a row."""
