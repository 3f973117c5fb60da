"""`scripts/bench s3`: the S3 client and the S3 server beside those of others."""
