# SPDX-License-Identifier: Apache-2.0
"""Connections handed on. `relay.py FD PORT`: those made to the listening socket FD go on to PORT of the loopback of the caller's network."""
import socket
import sys
import threading


def pump(source, sink):
    """What one side sends, to the other, until it has no more to send."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main():
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
            for pair in (client, server), (server, client):
                threading.Thread(target=pump, args=pair, daemon=True).start()


if __name__ == "__main__":
    main()
