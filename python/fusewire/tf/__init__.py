# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""Everything that needs TensorFlow: the plug-in, and our names in TensorFlow's modules. Start reading at loading.py."""
