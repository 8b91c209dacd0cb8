"""The engine behind `anabranch recipe`: which databases go together, and what has to be set up at both ends of a route.

What does not live here: the steps of a database that has a connector (`connectors/<db>/<role>/recipe.py`).
"""
