package code

import "strings"

// Language is the programming language of a command's sender, as in the binary header. Java: LanguageCode.
type Language byte

// The languages RocketMQ knows.
const (
	Java   Language = 0
	CPP    Language = 1
	DotNet Language = 2
	Python Language = 3
	Delphi Language = 4
	Erlang Language = 5
	Ruby   Language = 6
	Other  Language = 7
	HTTP   Language = 8
	Go     Language = 9
	PHP    Language = 10
	OMS    Language = 11
	Rust   Language = 12
	NodeJS Language = 13
)

// languageNames are the names in the JSON header, by number.
var languageNames = [...]string{
	Java: "JAVA", CPP: "CPP", DotNet: "DOTNET", Python: "PYTHON", Delphi: "DELPHI", Erlang: "ERLANG", Ruby: "RUBY",
	Other: "OTHER", HTTP: "HTTP", Go: "GO", PHP: "PHP", OMS: "OMS", Rust: "RUST", NodeJS: "NODE_JS",
}

// String returns the name in the JSON header. Unknown numbers are OTHER, since Java tools read the name as an enum constant.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return languageNames[Other]
}

// ParseLanguage reads a name in any letter case. Unknown names are Other: a new client must not be turned away for its name.
func ParseLanguage(name string) Language {
	for i, n := range languageNames {
		if strings.EqualFold(n, name) {
			return Language(i)
		}
	}
	return Other
}
