"""Receives events of a webhook endpoint and prints those with a valid signature.

Usage: FOLIO_WEBHOOK_SECRET=SECRET python webhook.py PORT (0: any port)
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import folio

# An event is smaller.
BODY_BYTES = 64 * 1024


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(min(size, BODY_BYTES))
        try:
            event = folio.verify_webhook(os.environ["FOLIO_WEBHOOK_SECRET"], dict(self.headers), body)
        except folio.InvalidSignature:
            self.send_response(400)
        else:
            # An event may be delivered several times: a program ignores an id that it has processed.
            print(f"event: {event.type}, {event.id}", flush=True)
            self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
