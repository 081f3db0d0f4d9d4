// What pages do beside what they are: a page that is live is fetched anew when something has changed.
"use strict";
