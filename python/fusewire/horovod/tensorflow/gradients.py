# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
"""What a tape and an optimizer do with gradients: those of all ranks are reduced, those of local variables are not."""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from fusewire.horovod.common.ops import Average, check_factor, checked, groups_of
from fusewire.horovod.common.process_sets import global_process_set
from fusewire.horovod.tensorflow.compression import Compression
from fusewire.horovod.tensorflow.mpi_ops import grouped_allreduce, size_op


def keys_of(variable: Any) -> set[int]:
    """What identifies a variable, whether it is seen as Keras 3's or as the one of TensorFlow in it."""
    inner = getattr(variable, "_value", None)
    return {id(variable)} if inner is None else {id(variable), id(inner)}


class LocalVariables:
    """Variables whose gradients stay on their rank."""

    def __init__(self) -> None:
        self._kept: list[Any] = []  # an id is that of one object for as long as the object lives
        self._keys: set[int] = set()

    def add(self, variable: Any) -> None:
        self._kept.append(variable)
        self._keys |= keys_of(variable)

    def __contains__(self, variable: Any) -> bool:
        return not self._keys.isdisjoint(keys_of(variable))


class GradientReduction:
    """Called with gradients and their variables, returns what is applied. A gradient that is None stays None."""

    def __init__(
        self,
        *,
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        groups: Any = None,
        process_set: Any = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        check_factor(gradient_predivide_factor, op)
        groups_of(num_groups, groups)  # all gradients of a type go in one operation, whatever the groups
        self._compression, self._op, self._factor = compression, checked(op), gradient_predivide_factor
        self.sparse_as_dense, self._process_set = sparse_as_dense, process_set
        self._scales_local = scale_local_gradients
        self.local = LocalVariables()

    def __call__(self, gradients: Iterable[Any], variables: Iterable[Any]) -> list[Any]:
        results = list(gradients)
        if not self._process_set.included() or self._process_set.size() == 1:
            return results
        places = [
            place
            for place, (gradient, variable) in enumerate(zip(results, variables, strict=True))
            if gradient is not None and variable not in self.local
        ]
        if self._scales_local:
            self._scale_local(results, places)
        for place, reduced in zip(places, self._reduce([results[place] for place in places]), strict=True):
            results[place] = reduced
        return results

    def _reduce(self, gradients: Sequence[Any]) -> list[Any]:
        def as_sent(gradient: Any) -> Any:
            return tf.convert_to_tensor(gradient) if self.sparse_as_dense else gradient

        sent = [as_sent(one) for one in gradients]
        if self._factor == 1.0 or not sent:
            return self._reduced(sent)
        # Only tensors are scaled before and after: rows of tf.IndexedSlices are added up one by one anyway.
        dense = [place for place, one in enumerate(sent) if not isinstance(one, tf.IndexedSlices)]
        sparse = [place for place in range(len(sent)) if place not in dense]
        scales = {"prescale_factor": 1.0 / self._factor, "postscale_factor": self._factor}
        for places, how in ((dense, scales), (sparse, {})):
            for place, one in zip(places, self._reduced([sent[place] for place in places], **how), strict=True):
                sent[place] = one
        return sent

    def _reduced(self, sent: Sequence[Any], **how: Any) -> list[Any]:
        if not sent:
            return []
        return grouped_allreduce(sent, compression=self._compression, op=self._op, process_set=self._process_set, **how)

    def _scale_local(self, gradients: list[Any], reduced: Sequence[int]) -> None:
        """Averages divide the gradients of other variables by the number of ranks."""
        for place, gradient in enumerate(gradients):
            if gradient is None or place in set(reduced):
                continue
            if isinstance(gradient, tf.IndexedSlices):
                scaled = gradient.values / tf.cast(size_op(self._process_set.process_set_id), gradient.values.dtype)
                gradients[place] = tf.IndexedSlices(scaled, gradient.indices, gradient.dense_shape)
            else:
                gradients[place] = gradient / tf.cast(size_op(self._process_set.process_set_id), gradient.dtype)
