// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Notes is where run_at() writes what a flight recorder wants to know of a call, and keeps the newest ones.
// Home: any thread that holds the interpreter's lock. Owns: what it keeps. Fails: as functions of Python do.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <vector>

namespace fusewire::calls {

constexpr Py_ssize_t kTold = 5;

struct Note;

// The newest notes of all groups.
struct Notes {
  PyObject_HEAD std::vector<Note>* ring;
  uint64_t count;
  PyObject* stack;  // a function whose result is kept with each note, or null
};

inline Notes* NotesOf(PyObject* self) { return reinterpret_cast<Notes*>(self); }

// `told`: kTold objects and the number of the call in its group. False: an exception.
bool BeginNote(Notes* notes, PyObject* const* told, int64_t timeout_ns, uint64_t* id);
void EndNote(const Notes& notes, uint64_t id);

PyType_Spec* NotesSpec();

}  // namespace fusewire::calls
