"""Logging in by an OpenID provider: people at the console, programs at REST with its tokens.

`settings.py` says by which provider; `provider.py` asks it for addresses and keys; `tokens.py` judges what it has signed;
`login.py` sends a browser there and takes it back; `rights.py` makes roles of claims; `sessions.py` keeps who is logged in;
`sign_on.py` is the whole. What does not live here: users with passwords (`manager/accounts.py`), pages (`console/`).
https://openid.net/specs/openid-connect-core-1_0.html
"""
