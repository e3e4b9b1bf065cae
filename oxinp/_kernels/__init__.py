"""Kernel families: a problem (shapes, strides, types) -> a frozen Spec -> a Kernel, with its launch geometry."""
