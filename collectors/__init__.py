"""What runs beside the pods: it scrapes engines and turns their counters into samples."""
