/** The endpoints of the status: one document, as JSON or as a page. Nothing here can be changed. */
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import type { Status } from "../../functions/shared/contract/status.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { type Asset, scriptAsset, styleAsset } from "./assets.ts";
import { renderPage } from "./page.ts";

export interface StatusAppOptions {
  /** Undefined: nothing was read yet. Absent: this process keeps no views. */
  readonly read: (() => Promise<Status | undefined>) | undefined;
  /** True if only names of this machine may stand in the header Host. */
  readonly isLoopback: boolean;
  readonly reporting: Pick<Reporting, "log"> & {
    readonly metrics: Pick<Reporting["metrics"], "statusRequests" | "statusSeconds">;
  };
  /** Milliseconds of a clock that never jumps. */
  monotonicMs(): number;
}

/** The second is that of rollout-operator's page. */
const paths = ["/", "/ui/status"];
const assets = [styleAsset, scriptAsset];
/** From both paths `./assets` leads to one of these. */
const assetFolders = ["/", "/ui/"];

const noViews =
  "This process keeps no views of pods and StatefulSets, so that it has no status: set VIEWS=watch, or ask a process that has it.";
const nothingYet = "Nothing has been read yet, because the API server has not answered.";

/** Nothing of another origin is loaded or asked, and no page may frame this one. */
const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
  vary: "Accept, Accept-Encoding",
} as const;

/** A document as it is sent. */
interface Rendered {
  readonly contentType: string;
  readonly plain: Buffer;
  readonly compressed: Buffer;
}

type Format = "json" | "html";

export function createStatusApp(options: StatusAppOptions): Hono {
  const app = new Hono();
  app.use(measure(options));
  app.use(async (c, next) => {
    for (const [name, value] of Object.entries(headers)) c.header(name, value);
    await next();
  });
  app.use(refuseHosts(options));
  app.use(async (c, next) => {
    if (c.req.method === "GET" || c.req.method === "HEAD") return next();
    return c.text("Only GET and HEAD are answered here: the status cannot be changed.", 405, { allow: "GET, HEAD" });
  });
  const rendered = renderOnce();
  app.on("GET", paths, async (c) => {
    if (options.read === undefined) return c.text(noViews, 503);
    const status = await options.read();
    return status === undefined
      ? c.text(nothingYet, 503, { "retry-after": "1" })
      : send(c, await rendered(status, formatOf(c)));
  });
  const packed = packOnce();
  for (const asset of assets) {
    const own = assetFolders.map((folder) => `${folder}${asset.path}`);
    app.on("GET", own, async (c) => {
      c.header("cache-control", "max-age=31536000, immutable");
      return send(c, await packed(asset));
    });
  }
  app.notFound((c) => c.text("There is nothing here: the status is at /.", 404));
  app.onError((error, c) => {
    options.reporting.log("error", `the status could not be shown: ${error.message}`, { err: error });
    return c.text("The status could not be shown: the log says why.", 500);
  });
  return app;
}

function measure({ reporting: { metrics }, monotonicMs }: StatusAppOptions): MiddlewareHandler {
  return async (c, next) => {
    const startedMs = monotonicMs();
    await next();
    metrics.statusRequests.inc({ code: String(c.res.status) });
    metrics.statusSeconds.observe((monotonicMs() - startedMs) / 1000);
  };
}

/** A website may have its own name lead to this machine, and its script would then read the answers. */
function refuseHosts({ isLoopback }: StatusAppOptions): MiddlewareHandler {
  return async (c, next) => {
    const { incoming } = (c.env ?? {}) as { readonly incoming?: IncomingMessage };
    const given = incoming?.rawHeaders.filter((_, at, all) => at % 2 === 1 && all[at - 1]?.toLowerCase() === "host");
    if (given !== undefined && given.length > 1) return c.text("Send one header Host.", 400);
    const [, host = ""] = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(given?.[0] ?? c.req.header("host") ?? "") ?? [];
    if (!isLoopback || ["localhost", "127.0.0.1", "[::1]"].includes(host.toLowerCase())) return next();
    return c.text("This address is only for localhost, 127.0.0.1 and [::1]: open it by one of these names.", 421);
  };
}

/** Browsers name HTML in Accept, and get the page. */
function formatOf(c: Context): Format {
  const asked = c.req.query("format");
  if (asked === "json" || asked === "html") return asked;
  const accepted = c.req.header("accept") ?? "";
  return accepted.includes("application/json") && !accepted.includes("text/html") ? "json" : "html";
}

/** Each document is rendered and compressed once, and serves all clients until the status is another one. */
function renderOnce(): (status: Status, format: Format) => Promise<Rendered> {
  let rendering: { readonly status: Status; readonly byFormat: Map<Format, Promise<Rendered>> } | undefined;
  return (status, format) => {
    if (rendering?.status !== status) rendering = { status, byFormat: new Map() };
    const { byFormat } = rendering;
    const known = byFormat.get(format) ?? render(status, format);
    byFormat.set(format, known);
    return known;
  };
}

async function render(status: Status, format: Format): Promise<Rendered> {
  if (format === "html") return pack("text/html; charset=UTF-8", await renderPage(status));
  return pack("application/json", `${JSON.stringify(status, undefined, 2)}\n`);
}

/** An asset is compressed when a client first asks for it. */
function packOnce(): (asset: Asset) => Promise<Rendered> {
  const known = new Map<Asset, Promise<Rendered>>();
  return (asset) => {
    const { contentType, text } = asset;
    const packed = known.get(asset) ?? pack(contentType, text);
    known.set(asset, packed);
    return packed;
  };
}

async function pack(contentType: string, text: string): Promise<Rendered> {
  const plain = Buffer.from(text);
  return { contentType, plain, compressed: await promisify(gzip)(plain) };
}

function send(c: Context, { contentType, plain, compressed }: Rendered): Response {
  const isCompressed = /\bgzip\b(?!;q=0)/.test(c.req.header("accept-encoding") ?? "");
  const body = isCompressed ? compressed : plain;
  const encoding = isCompressed ? { "content-encoding": "gzip" } : {};
  const length = String(body.byteLength);
  return c.body(new Uint8Array(body), 200, { "content-type": contentType, "content-length": length, ...encoding });
}
