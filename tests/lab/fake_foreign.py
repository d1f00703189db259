"""A listener that nobody should ever call: the place where planted base URLs point.

It records each connection, also one that never becomes an HTTP request (a TLS greeting, say), and
each request with the kind of credential it carried. An empty log proves that it was never called.
"""
import time

from lab_accounts import account_of
from lab_http import LabHandler, LabServer


class Handler(LabHandler):
    provider = "foreign"

    def credentials(self):
        return [{"kind": name, "account": account_of(self.headers[name])}
                for name in ("authorization", "x-api-key") if self.headers.get(name)]

    def route(self, path, body, n):
        return self.send_json({"error": "this is the lab's foreign host"}, 404)


class ForeignServer(LabServer):
    def get_request(self):
        conn, peer = super().get_request()
        self.log.add({"t": time.time(), "provider": "foreign", "method": "CONNECTION", "path": "",
                      "host": None, "account": None, "credential": "none",
                      "credential_account": None, "status": None})
        return conn, peer
