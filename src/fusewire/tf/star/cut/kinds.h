// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What star_server has to know of single operations.
// Home: any thread. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_TF_STAR_CUT_KINDS_H_
#define FUSEWIRE_TF_STAR_CUT_KINDS_H_

#include <string>

#include <tensorflow/core/framework/types.h>
#include <tensorflow/core/graph/graph.h>

namespace fusewire {
namespace tf {

// Operations whose answer depends on what other steps do. A group may wait for one only if all its nodes do.
bool MayBlock(const std::string& op);
// However quick it was until now: it waits for others, or for files.
bool MayTakeLong(const std::string& op);
// What belongs to the session or to other tasks, and not to a parameter server's step.
bool BelongsElsewhere(const std::string& op);
// Of something that stays where it is.
bool IsHandle(tensorflow::DataType type);
bool HasInputs(const tensorflow::Node& node);
// Not that of tf.switch_case, whose branches have numbers.
bool IsSwitchOfTwo(const tensorflow::Node& node);
// A variable, a table, a constant: named rather than computed.
bool IsNamed(const tensorflow::Node& node);

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_STAR_CUT_KINDS_H_
