"""The survey: lock libraries that people use, under the same faults, and which promises each of them keeps."""
