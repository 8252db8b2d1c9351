/** What carries one request to a pod and its answer back: connections, or the embedded world. */
import type { ExchangeLimits, HttpAnswer } from "../transport/exchange.ts";
import type { PodAddress } from "./pod-http.ts";
import type { PodUrl } from "./target.ts";

export interface Delivery extends PodUrl {
  readonly address: PodAddress;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** Rejects as an exchange does. */
export interface Transport {
  deliver(delivery: Delivery, limits: ExchangeLimits): Promise<HttpAnswer>;
}
