"""Moving a trail over a network: a pump sends, routers pass on, a receiver writes a replica.

    messages.py   what is said, in bounded pieces (the protocol)
    link.py       one connection: messages over TCP, with or without TLS
    tls.py        certificates of both sides, and what a peer is called
    pump.py       from a trail to the next hop, with back-off and a limit of bytes a second
    receiver.py   from a connection into a replica below a directory
    router.py     from a connection to the next hop, byte by byte, without a store
    server.py     who listens: accepts connections, and ends them

One connection is one trail. What was sent counts when the receiver says that it is durable; a router says nothing of the
kind itself. Nothing here knows a database, or looks at what a transaction says.
"""
