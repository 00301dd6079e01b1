# SPDX-License-Identifier: Apache-2.0
"""`python -m hypersonic.server.backends.python.stub CONTROL RUN EVENTS INPUTS OUTPUTS NAME`: started by the server only.

CONTROL is the read end of a pipe that the server holds open. RUN and EVENTS are descriptors of sockets, INPUTS and OUTPUTS of
shared memory. NAME is shown by `ps`. As little as possible is imported before the fork, because the parent keeps it for life.
"""

from __future__ import annotations

import sys

from hypersonic.server.backends.python.stub import keeper

if __name__ == "__main__":
    keeper.fork(int(sys.argv[1]))
    from hypersonic.server.backends.python.stub import process

    sys.exit(process.main(sys.argv[2:]))
