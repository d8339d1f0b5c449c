"""The verb `vhagar.guard`: a guard from whatever holds proven bounds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from vhagar.errors import InvalidInput
from vhagar.guard.bounds import Bound, of_certificate, of_result, of_store
from vhagar.guard.guard import Guard
from vhagar.network import Network
from vhagar.network.as_network import as_network
from vhagar.network.fingerprint import fingerprint
from vhagar.result import Result
from vhagar.result.certificate import MAGIC as CERTIFICATE
from vhagar.sweep.database import MAGIC as STORE
from vhagar.sweep.store import Store
from vhagar.sweep.study import load_models

Source = Result | Store | str | os.PathLike[str]

# How archives of results begin.
_ARCHIVE = b"PK\x03\x04"


def guard(
    *sources: Source | Iterable[Source],
    network: Network | str | os.PathLike[str] | None = None,
    certificates: Sequence[str | os.PathLike[str]] = (),
) -> Guard:
    """A guard of one network, from stores, results and certificates.

    Each source is a `Result`, a `Store`, or the file of one, or a certificate. `network` is the
    model that certificates are about, which are checked first; of a store with several networks it
    chooses one, also by its name. `certificates` are folders that hold those of stores and results,
    if they were moved.
    """
    given: list[Source] = []
    for source in sources:
        single = isinstance(source, Result | Store | str | os.PathLike)
        given += [source] if single else source  # type: ignore[list-item, arg-type]
    gathered = _Gathered(network, tuple(map(Path, certificates)))
    for source in given:
        gathered.add(source)
    if gathered.network is None:
        raise InvalidInput("give results, certificates or the store of a sweep")
    gathered.require_use_of_folders()
    return Guard(gathered.network, tuple(gathered.bounds))


def networks_behind(sources: Iterable[Path]) -> list[str]:
    """The model files of the studies whose stores are among some files."""
    found: list[str] = []
    for path in sources:
        if _start(path) == STORE:
            with Store(path) as store:
                found += store.study().networks
    return found


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None


class _Gathered:
    """The bounds so far, all of them about one network."""

    def __init__(
        self, asked: Network | str | os.PathLike[str] | None, folders: Sequence[Path]
    ) -> None:
        self.bounds: list[Bound] = []
        self._folders = folders
        self.network: Network | None = None
        self._name: str | None = None
        if isinstance(asked, str) and not Path(asked).exists():
            self._name = asked
        elif asked is not None:
            self.network = as_network(asked)

    def add(self, source: Source) -> None:
        if isinstance(source, Result):
            self._take(source.problem.network, of_result(source, self._folders))
        elif isinstance(source, Store):
            self._add_store(source)
        else:
            self._add_file(Path(source))

    def _add_file(self, path: Path) -> None:
        start = _start(path)
        if start == STORE:
            with Store(path) as store:
                self._add_store(store)
        elif start.startswith(_ARCHIVE):
            self.add(Result.load(path))
        elif start.startswith(CERTIFICATE):
            if self.network is None or self.network.file is None:
                raise InvalidInput(f"{path} is a certificate: name the model file it is about")
            self._take(self.network, of_certificate(path, self.network))
        else:
            raise InvalidInput(f"{path} is neither a store, a saved result nor a certificate")

    def _add_store(self, store: Store) -> None:
        models = {model.fingerprint: model for model in load_models(store.study())}
        store.check_models(list(models.values()))
        wanted = None if self.network is None else fingerprint(self.network)
        fitting = [
            model
            for model in models.values()
            if wanted in (None, model.fingerprint) and self._name in (None, model.network.name)
        ]
        if len(fitting) != 1:
            names = ", ".join(model.network.name for model in models.values())
            several = "the store holds several networks; name one with --network"
            none = f"the store has no network {self._name}" if self._name else "no network fits"
            raise InvalidInput(f"{several if fitting else none}; choose from: {names}")
        (model,) = fitting
        own = of_store(store, model.fingerprint, model.network, self._folders)
        self._take(model.network, own)

    def require_use_of_folders(self) -> None:
        """Refuse folders in which no certificate of the bounds was found."""
        files = [bound.certificate.path for bound in self.bounds if bound.certificate is not None]
        for folder in self._folders:
            if not any(file.parent == folder for file in files):
                raise InvalidInput(
                    f"{folder} holds no certificate of the bounds, which are named in the store or "
                    "the saved results; certificates are written by sweep --certificates and by "
                    "verify --certificate, and single ones are given as sources, with --model"
                )

    def _take(self, network: Network, bounds: Iterable[Bound]) -> None:
        if self.network is None:
            self.network = network
        elif fingerprint(self.network) != fingerprint(network):
            raise InvalidInput(
                f"a guard is about one network, not about {self.network.name} and {network.name}"
            )
        self.bounds += bounds
