# SPDX-License-Identifier: Apache-2.0
"""Tensors in POSIX shared memory instead of messages, for servers on this host that allow it.

names.py    the names of regions, and the regions that dead processes have left
region.py   a region: memory with a name
pool.py     the regions of a client, reused from request to request
place.py    the regions that are registered with a server
message.py  the message of a request whose tensors are in a region, and its answer
transport.py  sends a request again as a message if the server has forgotten its region
sharing.py  Sharing, which the rest of the client uses
"""
