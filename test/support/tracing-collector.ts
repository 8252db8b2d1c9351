/** A collector of traces: OTLP over HTTP in JSON, as far as tests need it. It keeps protobuf unread. */
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly name: string;
  /** Kind by its number in OTLP. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Trace and span, joined by a dash. */
  readonly links: readonly string[];
  readonly traceState: string;
  readonly isError: boolean;
}

export const spanKinds = { internal: 1, server: 2, client: 3, consumer: 5 } as const;

interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Collector {
  readonly url: string;
  readonly requests: readonly Received[];
  /** All spans so far that came as JSON. */
  spans(): ReceivedSpan[];
  /** Resource of the process that sent the last spans. */
  resource(): Readonly<Record<string, unknown>>;
  close(): Promise<void>;
}

/** Listens on a free port of this machine. */
export async function startCollector(): Promise<Collector> {
  const requests: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks = await Array.fromAsync(request as AsyncIterable<Buffer>);
    requests.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(200, { "content-type": request.headers["content-type"] ?? "" }).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const resourceSpans = () =>
    requests
      .filter(({ headers }) => headers["content-type"] === "application/json")
      .flatMap(({ body }) => JSON.parse(String(body)).resourceSpans);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans: () => resourceSpans().flatMap(({ scopeSpans }) => scopeSpans.flatMap(spansOf)),
    resource: () => fieldsOf(resourceSpans().at(-1)?.resource.attributes),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

interface Field {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

function fieldsOf(fields: readonly Field[] = []): Record<string, unknown> {
  return Object.fromEntries(
    fields.map(({ key, value }) => {
      const [[type, content] = []] = Object.entries(value);
      return [key, type === "intValue" ? Number(content) : content];
    }),
  );
}

interface SentSpan extends Omit<ReceivedSpan, "attributes" | "links" | "isError"> {
  readonly attributes?: readonly Field[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code?: number };
}

function spansOf({ spans }: { readonly spans: readonly SentSpan[] }): ReceivedSpan[] {
  return spans.map(({ attributes, links = [], status, ...span }) => ({
    ...span,
    parentSpanId: span.parentSpanId ?? "",
    traceState: span.traceState ?? "",
    attributes: fieldsOf(attributes),
    links: links.map(({ traceId, spanId }) => `${traceId}-${spanId}`),
    isError: status?.code === 2,
  }));
}
