/** A proxy in front of the server of a pod. It kills the server once for each state, before the answer with that is out. */
import type { ServerResponse } from "node:http";
import { ApiProxy, type Asked, headersOf } from "../support/forwarding.ts";
import type { ServedPod } from "./served-pod.ts";

export class ServerKiller extends ApiProxy {
  readonly #served: ServedPod;
  /** What the server was killed for: the call, and the state and epoch of the answer that was lost. */
  readonly steps: string[] = [];

  private constructor(served: ServedPod) {
    super({ url: `http://${served.address}:${served.port}` });
    this.#served = served;
  }

  static start(served: ServedPod): Promise<ServerKiller> {
    return new ServerKiller(served).listen();
  }

  protected async answer({ method, path, forward }: Asked, response: ServerResponse): Promise<void> {
    const answer = await forward();
    const text = await answer.body.text();
    const { state, lastEpoch } = JSON.parse(text);
    const step = `${method} ${path}: ${state} ${lastEpoch}`;
    if (!this.steps.includes(step)) {
      this.steps.push(step);
      await this.#served.killServer();
      response.destroy();
      return;
    }
    response.writeHead(answer.statusCode, headersOf(answer));
    response.end(text);
  }
}
