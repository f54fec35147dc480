// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Functions of Intel's compiler and profiler that oneCCL's static library needs: copies are the C
// library's, and the profiler's pointers are null, which oneCCL checks.
#include <cstddef>
#include <cstring>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are given.
extern "C" {
void* _intel_fast_memcpy(void* to, const void* from, size_t size) { return std::memcpy(to, from, size); }
void* _intel_fast_memset(void* to, int value, size_t size) { return std::memset(to, value, size); }
void* __itt_domain_create_ptr__3_0 = nullptr;
void* __itt_event_create_ptr__3_0 = nullptr;
void* __itt_event_end_ptr__3_0 = nullptr;
void* __itt_event_start_ptr__3_0 = nullptr;
void* __itt_metadata_add_ptr__3_0 = nullptr;
void* __itt_string_handle_create_ptr__3_0 = nullptr;
void* __itt_task_begin_ptr__3_0 = nullptr;
void* __itt_task_end_ptr__3_0 = nullptr;
void* __itt_thread_set_name_ptr__3_0 = nullptr;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
