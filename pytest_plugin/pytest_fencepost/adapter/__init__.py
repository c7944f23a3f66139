"""What runs under the author's interpreter, in the clients' processes, and calls the author's lock."""
