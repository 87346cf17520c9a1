"""Work at set times: what is planned, when it is due, who begins it, and where its answer goes."""
