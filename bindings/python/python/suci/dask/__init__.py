"""A communication backend of Dask: one word makes a cluster run over Suci.

    dask scheduler --protocol suci
    dask worker suci://10.0.0.1:8786

    LocalCluster(protocol="suci")

Each listener of a process is a node, and so is a process without one while it has connections. A
connection of Dask (`Comm`) is a channel of that node, so all connections of two processes share one
socket, and none blocks another. Small frames travel together in one message, copied once on each
side. A frame from 64 KiB on is a message of its own, which is sent from the program's memory. From
128 KiB on it is also received where it belongs, without a copy.

Node IDs come from addresses: 16 bits of the host's address, and the port. So a connector knows the
ID of a listener by its address. A process without a listener draws its ID.

Settings of Dask (the environment has them as `DASK_DISTRIBUTED__COMM__SUCI__KEY_FILE` and so on):

* `distributed.comm.suci.key-file`: the cluster's key, as `suci keygen` makes it. Otherwise that of
  the environment (`SUCI_KEY_FILE`), or of `suci.dask.Security`.
* `distributed.comm.suci.allow-insecure-network`: True lets nodes without a key leave loopback.
* `distributed.comm.timeouts.tcp`: silence after which connections are closed (30 s).
"""

from ._addresses import Security
from ._comms import Suci, SuciBackend, SuciConnector, SuciListener

__all__ = ["Security", "Suci", "SuciBackend", "SuciConnector", "SuciListener"]
