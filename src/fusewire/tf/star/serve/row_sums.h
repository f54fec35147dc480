// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The gradient of a table has a row for each id of a batch. TensorFlow's optimizers add the rows of equal ids with nine
// small operations for each table, which cost more than the sums. In a part they become one, with the same bits.
// Home: any thread. Owns: nothing. Fails: never; what does not look like such a sum stays as it is.
#pragma once

#include <tensorflow/core/graph/graph.h>

namespace fusewire::tf {

// The number of sums that became one operation.
int FuseRowSums(tensorflow::Graph* graph);

}  // namespace fusewire::tf
