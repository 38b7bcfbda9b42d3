"""The fields of a `multipart/form-data` body (RFC 7578), as clients send uploads."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

from sandbox.web import Request


def parts_of(request: Request) -> dict[str, tuple[str, bytes]]:
    """Field → (file name, content). Empty where the body is something else."""
    head = b"content-type: " + request.header(b"content-type") + b"\r\n\r\n"
    found = BytesParser(policy=HTTP).parsebytes(head + request.body)
    if not found.is_multipart():
        return {}
    fields = {}
    for part in found.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        fields[str(name)] = (part.get_filename() or "", content if isinstance(content, bytes) else b"")
    return fields
