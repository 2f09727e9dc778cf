"""Commands that take a model elsewhere: `krepes export` and `krepes serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from krepes.base.storage.files import check_writable, readable_bytes
from krepes.cli import options
from krepes.cli.command import command
from krepes.cli.terminal import line, show_facts

TOKEN = "KREPES_TOKEN"


@command
def export(
    model: options.Model,
    output: Annotated[
        Path,
        options.option("--output", "-o", "The file to write: .onnx, or .html for a page.", metavar="FILE"),
    ],
    data: Annotated[
        Path | None, options.option("Rows of the fit, to list rare values of categories.", metavar="DATA")
    ] = None,
    confidence: Annotated[
        float | None,
        options.option("Add intervals, or sets of classes, that hold the target in this share of rows."),
    ] = None,
    overwrite: options.Force = False,
) -> dict[str, Any]:
    """Write a model as an ONNX file, or as a page that scores rows in a browser. Both run without krepes and torch.

    Tables are encoded in the file. The page needs no server, and nothing leaves the machine.

    [cyan]krepes export model.krepes -o model.onnx[/]
    """
    if output.suffix.lower() not in (".onnx", ".html", ".htm"):
        raise ValueError(f"{output.name}: expected a name that ends in .onnx, or in .html for a page.")
    check_writable(output, overwrite)
    from krepes import load
    from krepes.one_pass import OnePassEstimator

    fitted = load(model, device="cpu")
    page = output.suffix.lower() in (".html", ".htm")
    chosen: dict[str, Any] = {"data": data, "confidence": confidence}
    if not isinstance(fitted, OnePassEstimator):
        if page or chosen != {"data": None, "confidence": None}:
            raise ValueError("Clusters are written as ONNX files, without --data and --confidence.")
        chosen = {}
    if page:
        if confidence is not None:
            raise ValueError("--confidence is for ONNX files: a page has no intervals.")
        from krepes.report.scoring_page import write_scoring_page

        write_scoring_page(fitted, output, data, overwrite)
        about: dict[str, Any] = {"model": type(fitted).__name__}
        shown: dict[str, str] = about
    else:
        from krepes.export.onnx_file import OPSET, description_of

        fitted.to_onnx(output, **chosen, overwrite=overwrite)
        about = description_of(output)
        names = {"inputs": _named(about["inputs"]), "outputs": ", ".join(about["outputs"])}
        shown = {"model": about["model"], **names, "opset": str(OPSET)}
    size = output.stat().st_size
    show_facts(shown | {"saved": f"{output}, {readable_bytes(size)}"})
    return {"file": str(output), "bytes": size, **about}


def _named(inputs: list[dict[str, Any]]) -> str:
    names = [each["name"] for each in inputs]
    return ", ".join(names[:8]) + (f", ... ({len(names)})" if len(names) > 8 else "")


@command
def serve(
    model: options.Model,
    host: Annotated[str, options.option("The address to listen at.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, options.option("The port to listen at.")] = 8000,
    most_rows: Annotated[int, options.option("Rows in one request, at most.")] = 10_000,
    most_bytes: Annotated[int, options.option("Bytes of one request, at most.")] = 10_000_000,
    seconds: Annotated[int, options.option("Seconds for one request, at most.")] = 30,
) -> dict[str, Any]:
    """Answer requests over HTTP with one model: /predict, /transform, /explain, /health, /schema, /docs.

    With a token in the environment variable KREPES_TOKEN, requests must send it; another --host than 127.0.0.1 needs
    one.

    [cyan]krepes serve model.krepes --port 8000[/]
    """
    from krepes.base.validation import check_count, check_number
    from krepes.cli.opening import load_model
    from krepes.one_pass import OnePassEstimator
    from krepes.serving.server import Limits, application, is_loopback

    check_number("--port", port, least=1, most=65535)
    for name, value in {"--most-rows": most_rows, "--most-bytes": most_bytes, "--seconds": seconds}.items():
        check_count(name, value)
    token = os.environ.get(TOKEN) or None
    if token is None and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached from other machines: set a token in the environment variable {TOKEN}, which "
            "requests then send as 'Authorization: Bearer TOKEN'."
        )
    limits = Limits(body_bytes=most_bytes, rows=most_rows, seconds=float(seconds))
    app = application(load_model(model, "cpu", OnePassEstimator, made_by="fit"), limits, token)
    import uvicorn

    line(f"Serving {model} at http://{host}:{port}, described at /docs. Ctrl-C ends it.")
    example = f"curl -s http://{host}:{port}/schema"
    line(f"Next: {example}")
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_keep_alive=10)
    return {"model": str(model), "host": host, "port": port, "next": example}
