/** A small HTTP server that plays the API server for one test, and a client that is connected to it. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import {
  type ConnectOptions,
  connect,
  type KubernetesCluster,
} from "../../../../functions/shared/kubernetes/client.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: string;
  /** Number of requests before this one. */
  readonly index: number;
}

export interface RecordedRequest {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export interface PlayedServer {
  readonly url: string;
  readonly requests: RecordedRequest[];
  /** Number of connections that were opened. */
  connections(): number;
  /** Sets how requests are answered from now on. */
  answer(handler: (exchange: Exchange) => unknown): void;
}

export interface Played {
  readonly cluster: KubernetesCluster;
  readonly server: PlayedServer;
  readonly kubeconfig: string;
}

/** Runs a test against a server of its own. `user`: the kubeconfig's user. */
export async function withServer(
  options: Partial<ConnectOptions> & { readonly user?: object },
  run: (played: Played) => Promise<void>,
): Promise<void> {
  const { user = {}, ...connectOptions } = options;
  const directory = await mkdtemp(join(tmpdir(), "sluice-unit-"));
  const requests: RecordedRequest[] = [];
  let handler: (exchange: Exchange) => unknown = ({ response }) => response.end("{}");
  let connections = 0;
  const http = createServer(async (request, response) => {
    const body = await text(request);
    const { method, url, headers } = request;
    handler({ request, response, body, index: requests.push({ method, url, headers, body }) - 1 });
  });
  http.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, kubeconfigText(url, user));
  const cluster = await connect({ userAgent: "sluice/0.0.0 (unit)", kubeconfig, ...connectOptions });
  const answer = (next: typeof handler) => {
    handler = next;
  };
  try {
    await run({ cluster, server: { url, requests, connections: () => connections, answer }, kubeconfig });
  } finally {
    await cluster.close();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
    await rm(directory, { recursive: true });
  }
}

/** Answers with a `Status`, as the API server refuses. */
export function refuse(
  { response }: Exchange,
  code: number,
  reason: string,
  headers: Record<string, string> = {},
): void {
  const message = `refused: ${reason}`;
  response.writeHead(code, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message }));
}
