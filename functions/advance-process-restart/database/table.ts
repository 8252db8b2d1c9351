/** The databases whose nodes can be asked: a row for each. What differs between them is here alone. */

import type { DatabaseName } from "../../shared/annotations/restart.ts";

export interface DatabaseRow {
  /** Its name, for people. */
  readonly title: string;
  /** The roles that make a node eligible as master, as the database lists them. */
  readonly masterRoles: ReadonlySet<string>;
}

export const databases: Readonly<Record<DatabaseName, DatabaseRow>> = {
  opensearch: {
    title: "OpenSearch",
    // Version 1 knows the second alone, and later ones list it where a user has written it.
    masterRoles: new Set(["cluster_manager", "master"]),
  },
  elasticsearch: { title: "Elasticsearch", masterRoles: new Set(["master"]) },
};
