/** Writes what Knative's controllers would say of an object, once for each thing that is to be reported. */
import type { Api } from "../../controlplane/api.ts";
import { type KnativeObject, pathOf } from "./objects.ts";

export class Statuses {
  readonly #api: Api;
  readonly #written = new Map<string, string>();

  constructor(api: Api) {
    this.#api = api;
  }

  /** @param list of the objects of this kind, in all namespaces */
  async write(list: string, { metadata }: KnativeObject, status: object): Promise<void> {
    const text = JSON.stringify(status);
    if (this.#written.get(metadata.uid) === text) return;
    await this.#api.patch(`${pathOf(list, metadata)}/status`, { status });
    this.#written.set(metadata.uid, text);
  }
}
