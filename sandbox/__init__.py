"""The sandbox: a simulated job provider and a sample webhook receiver that speak real HTTP.

A process of its own for demos, tests and benches. The product never imports it, and it never imports the product.
"""
