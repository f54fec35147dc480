# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What needs TensorFlow: the plug-in, and our names in TensorFlow's own modules; loading.py is its beginning."""
