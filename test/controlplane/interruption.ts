/**
 * Is aborted by the first signal that asks this process to end. A second one ends it at once, and the leash ends its children.
 */
export function interruption(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(1);
      interrupted.abort(new Error(`${signal}: ending`));
    });
  }
  return interrupted.signal;
}

/** Resolves, to undefined, when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
