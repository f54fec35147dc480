// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Checks the sizes that a peer's TensorProto claims, before TensorFlow decodes it: TensorFlow trusts the message. It
// fills a shape of 2^40 elements from one value, variants within variants recurse without a bound, and the decoders of
// some variants trust counts and sizes in the message. Home: any thread. Fails: with DataLoss, which
// names the claim.
#pragma once

#include <tensorflow/core/framework/tensor.pb.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// Variants in tensors of variants: a list of lists of lists is 3 deep.
constexpr int kVariantDepthMax = 32;

TfStatus CheckClaims(const tensorflow::TensorProto& proto);

}  // namespace fusewire::tf
