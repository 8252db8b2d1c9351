/** The answer to `GET /metrics`: one rendering serves all clients for a moment, because each takes time and memory. */
import type { Registry } from "prom-client";

export interface MetricsPage {
  readonly text: Uint8Array<ArrayBuffer>;
  readonly contentType: string;
}

/** Prometheus scrapes every few seconds. In milliseconds, counted from the end of the rendering. */
export const servesForMs = 500;

/** Returns a function that gives the page. During a rendering all callers wait for it; a failed one is tried again. */
export function createMetricsPage(
  registry: Pick<Registry, "metrics" | "contentType">,
  monotonicMs: () => number,
): () => Promise<MetricsPage> {
  let page: Promise<MetricsPage> | undefined;
  const render = async (): Promise<MetricsPage> => {
    try {
      const text = new TextEncoder().encode(await registry.metrics());
      const rendered = { text, contentType: registry.contentType };
      renderedMs = monotonicMs();
      return rendered;
    } catch (error) {
      page = undefined;
      throw error;
    }
  };
  let renderedMs = Number.POSITIVE_INFINITY;
  return () => {
    if (page === undefined || monotonicMs() - renderedMs >= servesForMs) {
      renderedMs = Number.POSITIVE_INFINITY;
      page = render();
    }
    return page;
  };
}
