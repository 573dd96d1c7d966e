"""What happened: schema, trace store, live tracer, probes, findings."""
