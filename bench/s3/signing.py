"""AWS Signature Version 4 for the load on servers, with `hmac` alone.

See https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
"""

import datetime
import hashlib
import hmac

from s3.stores import ACCESS_KEY, SECRET_KEY

REGION = "us-east-1"


def signed_fields(method, port, path, payload="UNSIGNED-PAYLOAD", more=None):
    """The fields of a request to a port of loopback, without a query. `payload` is the value of x-amz-content-sha256."""
    now = datetime.datetime.now(datetime.UTC)
    moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    fields = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": payload, "x-amz-date": moment, **(more or {})}
    names = ";".join(sorted(fields))
    canonical = "".join(f"{name}:{fields[name]}\n" for name in sorted(fields))
    request = "\n".join([method, path, "", canonical, names, payload])
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(signing_key(day), text.encode(), hashlib.sha256).hexdigest()
    fields["authorization"] = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope},SignedHeaders={names},Signature={signature}"
    return fields


def signing_key(day):
    key = f"AWS4{SECRET_KEY}".encode()
    for word in day, REGION, "s3", "aws4_request":
        key = hmac.digest(key, word.encode(), "sha256")
    return key
