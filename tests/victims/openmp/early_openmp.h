// SPDX-License-Identifier: Apache-2.0
#pragma once

extern int early_told, early_team;
int team_now(void);
