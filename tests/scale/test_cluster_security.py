"""A cluster whose processes know one another by certificates: a pass runs, and whoever has none is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from krepes import KernelEmbedding
from krepes.engines import Dask
from refusals import refuses

distributed = pytest.importorskip("distributed", reason='needs pip install "krepes[scale]"')
x509 = pytest.importorskip("cryptography.x509", reason="needs pip install cryptography")

X = np.random.default_rng(0).normal(size=(400, 3))
OPTIONS = {"n_landmarks": 20, "n_components": 3, "random_state": 0, "dtype": "float64"}


class Authority:
    """A certificate authority of our own, and certificates that it signs; keys are written for this test alone."""

    def __init__(self, folder: Path, name: str):
        from cryptography.hazmat.primitives.asymmetric import ec

        folder.mkdir()
        self.folder, self.key = folder, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.file = self._written(
            "ca.pem", self._certificate(self.name, self.key.public_key(), authority=True)
        )

    def signed(self, who: str) -> tuple[str, str]:
        """Files with the certificate and the key of a process."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, who)])
        certificate = self._written(
            f"{who}.pem", self._certificate(subject, key.public_key(), authority=False)
        )
        path = self.folder / f"{who}.key"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        path.chmod(0o600)
        return certificate, str(path)

    def security(self):
        """For all three roles."""
        from distributed.security import Security

        files = {}
        for role in ("scheduler", "worker", "client"):
            files[f"tls_{role}_cert"], files[f"tls_{role}_key"] = self.signed(role)
        return Security(tls_ca_file=self.file, require_encryption=True, **files)

    def _certificate(self, subject, public, authority: bool):
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def _written(self, name: str, certificate) -> str:
        from cryptography.hazmat.primitives import serialization

        path = self.folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)


def test_a_pass_over_tls(tmp_path):
    from distributed import Client, LocalCluster

    ours, theirs = Authority(tmp_path / "ours", "krepes"), Authority(tmp_path / "theirs", "somebody")
    security = ours.security()
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        security=security,
        protocol="tls://",
        dashboard_address=None,
    ) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with Client(cluster, security=security, set_as_default=False) as client:
            there = KernelEmbedding(**OPTIONS, engine=Dask(client, rows_per_part=100)).fit(X)
        here = KernelEmbedding(**OPTIONS).fit(X)
        assert (there.moments_.S - here.moments_.S).abs().max() <= 1e-12 * here.moments_.S.abs().max()
        for stranger in (theirs.security(), None):  # another authority's certificate, and none
            address = cluster.scheduler_address
            with pytest.raises((OSError, TypeError, ValueError)):
                Client(address, security=stranger, timeout="3s", set_as_default=False)


def test_an_address_with_tls_says_what_it_needs():
    """Without certificates there is no connection, and the error says what to give."""
    with refuses(ConnectionError, "Security"):
        KernelEmbedding(**OPTIONS, engine="tls://127.0.0.1:9").fit(X)
