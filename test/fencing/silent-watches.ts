/** A proxy in front of the API server whose watches are accepted, and report nothing: all events are lost. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { ApiProxy, type Asked, headersOf } from "../support/forwarding.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";

export class SilentWatches extends ApiProxy {
  /** Of a client behind it. */
  readonly kubeconfig = join(tmpdir(), `sluice-silent-watches-${process.pid}`);

  /** Resolves when it listens. */
  static async start({ url, caFile, token }: ControlPlane): Promise<SilentWatches> {
    const proxy = await new SilentWatches({ url, ca: readFileSync(caFile, "utf8") }).listen();
    writeFileSync(proxy.kubeconfig, kubeconfigText(proxy.url, { token }));
    return proxy;
  }

  override async close(): Promise<void> {
    rmSync(this.kubeconfig, { force: true });
    await super.close();
  }

  protected async answer({ path, forward }: Asked, response: ServerResponse): Promise<void> {
    if (new URL(path, this.url).searchParams.get("watch") === "true") {
      response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
      return;
    }
    const answer = await forward();
    response.writeHead(answer.statusCode, headersOf(answer));
    await pipeline(answer.body, response);
  }
}
