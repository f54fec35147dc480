// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The differences between the TensorFlow versions that we support: every #if on a version is here.
// Home: none. Fails: to compile, with a version that is not supported.
#pragma once

#ifndef NDEBUG
#error "TensorFlow's wheels are built with NDEBUG, and the layout of their classes depends on it: define it"
#endif

#include <absl/status/status.h>
#include <tensorflow/core/framework/types.h>
#include <tensorflow/core/platform/errors.h>
#include <tensorflow/core/platform/refcount.h>

// The version comes from the build: newer wheels have no header with it.
#if FUSEWIRE_TF_MAJOR != 2 || FUSEWIRE_TF_MINOR < 15
#error "Fusewire needs TensorFlow 2.15 or newer"
#endif

namespace fusewire::tf {

// TensorFlow's status; ours is fusewire::Status.
using TfStatus = absl::Status;

template <class T>
using TfRef = tsl::core::RefCountPtr<T>;

// Newer versions pass a session's config to its kernels. Called with 0: the first that compiles.
template <class Args, class Params>
auto PassSessionConfig(const Args& args, Params* params, int) -> decltype(void(params->session_config)) {
  params->session_config = args.session_config;
}
template <class Args, class Params>
void PassSessionConfig(const Args&, Params*, long) {}

}  // namespace fusewire::tf
