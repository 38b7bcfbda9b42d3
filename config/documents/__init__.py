"""The pages that `manage.py document` makes, or parts of them: what stands in the code is not written twice."""
