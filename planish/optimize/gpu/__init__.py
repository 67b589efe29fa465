"""Actions for GPUs: one template for each way in which a kernel walks memory."""
